"""A row for each storage: for people as a table, for programs as an object."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lightkube import Client
from status.storage_states import StorageState

from components import names
from components.storage_survey import StoragePlace, storage_states, survey_storages
from stacks.resolve import Stack
from tools.status.rows import columns, in_a_line

TITLES = ("TENANT", "STORAGE", "PHASE", "CLAIM", "SIZE", "PREPARE", "BROWSER", "REASON")


@dataclass(frozen=True)
class StorageRow:
    """One storage and its state."""

    tenant: str
    storage: str
    namespace: str
    state: StorageState

    @property
    def plain(self) -> dict[str, Any]:
        """Give it for programs."""
        overall, claim, prepare, browser = self.state.overall, self.state.claim, self.state.prepare, self.state.browser
        return {
            "kind": "storage",
            "tenant": self.tenant,
            "storage": self.storage,
            "namespace": self.namespace,
            "phase": overall.phase.value,
            "reason": overall.reason,
            "message": overall.message,
            "claimName": names.claim(self.storage),
            "claim": claim.phase.value,
            "claimReason": claim.reason,
            "claimMessage": claim.message,
            "size": claim.size or None,
            "capacity": claim.capacity or None,
            "prepare": prepare.phase.value,
            "prepareReason": prepare.reason,
            "prepareMessage": prepare.message,
            "job": prepare.job or None,
            "recovery": prepare.recovery.value,
            "browser": browser.phase.value,
            "browserReason": browser.reason,
            "browserMessage": browser.message,
        }

    @property
    def words(self) -> tuple[str, ...]:
        """Give it for people, in the order of the titles."""
        overall, claim, prepare, browser = self.state.overall, self.state.claim, self.state.prepare, self.state.browser
        why = "" if overall.reason == "StorageReady" else overall.reason
        return (
            self.tenant,
            self.storage,
            overall.phase.value,
            claim.phase.value,
            claim.capacity or claim.size or "-",
            prepare.phase.value,
            browser.phase.value,
            in_a_line(": ".join(filter(None, (why, overall.message)))),
        )


def storage_rows(client: Client, stack: Stack) -> Iterator[StorageRow]:
    """Judge every storage of the stack file, in its order, then what the cluster has beside them."""
    listed = {StoragePlace(one.namespace, one.name): one.tenant for one in stack.storages.values()}
    found = survey_storages(client, stack.owner, (place.namespace for place in listed))
    tenants = {**listed, **{place: place.namespace for place in sorted(found) if place not in listed}}
    for judged in storage_states(client, found, tenants):
        place = judged.place
        yield StorageRow(tenants[place], place.storage, place.namespace, judged.state)


def storage_table(found: Iterable[StorageRow]) -> str:
    """Lay the rows out in columns; nothing where there is no storage."""
    lines = [row.words for row in found]
    return columns([TITLES, *lines]) if lines else ""
