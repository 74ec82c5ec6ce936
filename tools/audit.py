"""Says which of the pinned versions have known vulnerabilities, by pip-audit; fails if one has.

A version that the database cannot be asked about is counted, and is not said to be safe.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"


def main() -> int:
    """Print the findings, and return 1 if a version has a known vulnerability."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(CONSTRAINTS), "--no-deps", "--format", "json"]
    done = subprocess.run([*command, "--progress-spinner", "off"], capture_output=True, text=True, check=False)
    text, is_wrong = summary(done.stdout)
    print(text)
    return int(is_wrong)


def summary(output: str) -> tuple[str, bool]:
    """Return what pip-audit found, as text, and whether that is wrong.

    >>> summary('{"dependencies": [{"name": "a", "skip_reason": "not found"}]}')[0]
    'NO VERSION WAS AUDITED: no database of vulnerabilities could be asked (1 versions)'
    """
    try:
        dependencies = json.loads(output)["dependencies"]
    except (ValueError, KeyError):
        return "NO VERSION WAS AUDITED: pip-audit gave no result", False
    asked = [each for each in dependencies if "skip_reason" not in each]
    wrong = [f"{each['name']} {each['version']}: {known['id']}" for each in asked for known in each["vulns"]]
    if wrong:
        return "\n".join(wrong), True
    if not asked:
        return (
            f"NO VERSION WAS AUDITED: no database of vulnerabilities could be asked ({len(dependencies)} versions)",
            False,
        )
    return f"{len(asked)} of {len(dependencies)} versions audited, none has a known vulnerability", False


if __name__ == "__main__":
    sys.exit(main())
