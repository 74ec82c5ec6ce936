"""The page of `clustersim serve`: knobs at the left, the forecast at the right.

This is the only package that knows Dash (extra `serve`); it computes nothing. The page asks this machine alone, and can
send names and values of knobs, nothing else.
"""
