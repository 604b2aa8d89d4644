"""Device readings of the vendor's driver."""
