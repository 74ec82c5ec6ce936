"""Data sets of images in a folder that the user has: MNIST, Fashion-MNIST and CIFAR-10."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from clustersim.errors import InputError
from clustersim.learning.images import ImageSets, cifar10, mnist
from clustersim.learning.tasks.classifier import Classifier
from clustersim.learning.tasks.task import TaskData, Trainee
from clustersim.reading import Place
from clustersim.spec import Count

_KEY = "learning.task.folder"


@contextmanager
def _named() -> Iterator[None]:
    """Place mistakes in files at the key that names their folder."""
    try:
        yield
    except InputError as error:
        raise InputError(Place().located(replace(each, key=None), _KEY) for each in error.mistakes) from None


class ImageFolder(Classifier):
    """Images to train on and others to evaluate, from files."""

    data_set: ClassVar[str]

    folder: str = Field(min_length=1, description="the folder with the files of the data set")
    model: Literal["mlp", "cnn"] = Field(
        default="cnn",
        description="LeNet-5 with ReLU and maximum pooling (`cnn`), or a perceptron with one hidden layer (`mlp`)",
    )
    hidden: Count = Field(default=128, le=4096, description="units of the hidden layer, with `model: mlp`")
    samples: Count | None = Field(default=None, description="images to train on, the first ones; if left out, all")
    test_samples: Count = Field(default=2000, description="images to evaluate, the first ones")

    def network(self) -> str:
        return "LeNet-5" if self.model == "cnn" else super().network()

    def title(self) -> str:
        images = "" if self.samples is None else f"the first {self.samples:,} images of "
        return f"{self.network()} on {images}{self.data_set}"

    def data(self) -> TaskData:
        return TaskData(has_labels=True, has_accuracy=True)

    def trainee(self, seed: int) -> Trainee:
        from clustersim.learning.training.image_folder import images_trainee

        return images_trainee(self, seed)

    def path(self) -> Path:
        """Return the folder, or raise InputError if there is none."""
        found = Path(self.folder).expanduser()
        if "\0" in self.folder or not found.is_dir():
            raise InputError(
                f"there is no folder '{self.folder[:200]}'; nothing is downloaded",
                got=self.folder[:200],
                allowed=f"a folder with the files of {self.data_set}",
                key=_KEY,
            )
        return found

    def images(self) -> ImageSets:
        """Return the images to train on and to evaluate; raise InputError if a file is missing or wrong."""
        with _named():
            return self._read(self.path())

    def check(self) -> None:
        with _named():
            self._find(self.path())

    @abstractmethod
    def _find(self, folder: Path) -> object:
        """Raise InputError if a file is missing."""

    @abstractmethod
    def _read(self, folder: Path) -> ImageSets:
        """Return the images in a folder."""


class IdxFolder(ImageFolder):
    """Images in the four files of MNIST's format."""

    def _find(self, folder: Path) -> object:
        return mnist.find_files(folder)

    def _read(self, folder: Path) -> ImageSets:
        return mnist.read_folder(folder)


class Mnist(IdxFolder):
    """MNIST's handwritten digits, 60,000 and 10,000, from a folder with its four IDX files, plain or as .gz."""

    data_set = "MNIST"
    kind: Literal["mnist"] = "mnist"


class FashionMnist(IdxFolder):
    """Fashion-MNIST's photographs of clothes, 60,000 and 10,000, from a folder with its four IDX files, or as .gz."""

    data_set = "Fashion-MNIST"
    kind: Literal["fashion-mnist"] = "fashion-mnist"


class Cifar10(ImageFolder):
    """CIFAR-10's photographs, 50,000 and 10,000, from a folder with the files of its binary version."""

    data_set = "CIFAR-10"
    kind: Literal["cifar-10"] = "cifar-10"

    def _find(self, folder: Path) -> object:
        return cifar10.find_files(folder)

    def _read(self, folder: Path) -> ImageSets:
        return cifar10.read_folder(folder)
