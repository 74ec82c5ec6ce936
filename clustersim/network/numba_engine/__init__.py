"""The network engine in kernels compiled by Numba, on tables: for work of many messages.

Tables are arrays of records: a row per link, flow or rank. Kernels change them in place and have no SimPy.
Nothing here is imported before the work is large enough to pay for loading Numba.
"""
