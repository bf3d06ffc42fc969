"""Temporary servers, and a demo workload on one of them."""
