"""What queues, requests, consumers and workers do now."""
