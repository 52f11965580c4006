"""GPUs of this machine: one probe a vendor's interface, each beside a pure parser of what it says."""
