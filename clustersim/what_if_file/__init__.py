"""What if, as one HTML file to be mailed: sliders over points that were computed beforehand.

It shows what `clustersim.what_if` returns. The file needs no server and no network; a setting that was not computed is
grey, with the reason.
"""

from clustersim.what_if_file.page import MOST_POINTS, what_if_html, write_what_if

__all__ = ["MOST_POINTS", "what_if_html", "write_what_if"]
