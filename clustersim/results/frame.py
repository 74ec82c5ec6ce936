"""A whole HTML page in a frame of its own, as the output of a notebook's cell."""

from __future__ import annotations

HEIGHT_PX = 720
"""Of the frame; the page scrolls in it, and a reader can pull its lower edge."""

_EDGE_PX = 12
_BASE = '<base href="about:srcdoc">'
"""Links within the page stay in the frame: without it they lead to the notebook."""


def framed(page: str, title: str, instead: str) -> str:
    """Return HTML that shows a page in a frame, and `instead`, also HTML, where frames or scripts are not trusted.

    The frame holds the page itself, so nothing is loaded. Its scripts run, but cannot reach the notebook.
    """
    page = page.replace("<head>", f"<head>{_BASE}", 1)
    return (
        f'<div style="position:relative;height:{HEIGHT_PX}px;overflow:auto;resize:vertical">{instead}'
        f"<iframe title='{_attribute(title)}' sandbox='allow-scripts allow-downloads' srcdoc='{_attribute(page)}'"
        f' style="position:absolute;top:0;left:0;width:100%;height:calc(100% - {_EDGE_PX}px);border:0"></iframe></div>'
    )


def _attribute(text: str) -> str:
    """Return a text for an attribute in single quotes, of which a page has few.

    >>> _attribute("a & 'b' < \\"c\\"")
    'a &amp; &#39;b&#39; < "c"'
    """
    return text.replace("&", "&amp;").replace("'", "&#39;")
