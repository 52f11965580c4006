"""The network that faults are played in; without it a fault is not played, and says why."""

from real import network

from faults.tally import Missing

FETCH = network.FETCH


class Network(network.Network):
    """Namespaces with these members.

    Raises:
        Missing: this user may not make namespaces.
    """

    def __init__(self, *members: str) -> None:
        try:
            super().__init__(*members)
        except network.NoNamespaces as error:
            raise Missing(str(error)) from error
