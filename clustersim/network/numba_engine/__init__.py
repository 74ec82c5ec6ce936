"""The same network as the plain-Python engine's, in compiled kernels over tables, for work of many messages.

Tables are arrays of records: a row a link, a flow, a rank. Kernels change them in place and know no SimPy.
Nothing here is imported before the work is large enough to pay for loading the compiler.
"""
