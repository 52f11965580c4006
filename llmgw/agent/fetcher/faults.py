"""How a download goes wrong: for now, or for good."""


class Broken(Exception):
    """It broke off; another try may well do. The message says what happened."""


class CannotFetch(Exception):
    """No further try would do. The message is a sentence for people: what was wanted, what was found, what to do."""
