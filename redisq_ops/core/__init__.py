"""The queues, one package for each kind, on a shared engine. Prints and renders nothing."""
