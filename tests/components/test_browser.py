"""What a storage's browser comes to, and that it has nothing worth stealing."""

from dataclasses import replace
from typing import Any

import pytest

from components import names
from components.browser import browser_manifests
from components.gpu_storage import storage_manifests
from components.model import Manifest
from components.storage_placement import PodPlacement
from components.storage_spec import Storage, StorageSpec
from policy.law import judge
from tests.components.test_objects import STORAGE
from tests.conftest import Golden
from tests.stack_files import image


def shown(browser: object, **said: Any) -> Storage:
    """Give a storage with the *browser* that a stack file says."""
    spec = StorageSpec.model_validate({"size": "200Gi", "browser": browser})
    return replace(STORAGE, spec=spec, browser_image=image("dufs"), **said)


def pod(storage: Storage) -> Manifest:
    """Give the browser's pod."""
    spec: Manifest = browser_manifests(storage)["browser"]["spec"]["template"]["spec"]
    return spec


def test_browser(golden: Golden) -> None:
    """A browser's Deployment and Service are reviewed as one file."""
    golden("browser.yaml", browser_manifests(shown(browser=True)))


@pytest.mark.parametrize("browser", [None, False])
def test_a_storage_shows_nothing_unless_asked(browser: object) -> None:
    """Without `browser: true` there is neither pod nor Service."""
    assert set(storage_manifests(shown(browser))) == {"claim"}


@pytest.mark.parametrize("browser", [True, {}, {"upload": False}, {"upload": True}, {"upload": {"maxSize": "1Gi"}}])
@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"])
def test_it_obeys_the_law_with_nothing_to_steal(browser: object, mode: Any) -> None:
    """No token, no environment, no second volume, no service links; the law finds nothing."""
    storage = shown(browser, access_mode=mode)
    (container,) = pod(storage)["containers"]
    assert "env" not in container
    assert "envFrom" not in container
    assert [volume["name"] for volume in pod(storage)["volumes"]] == ["data"]
    assert not [found.text for found in judge(list(storage_manifests(storage).values())) if "wall" not in found.check]


@pytest.mark.parametrize(
    ("browser", "mode", "mounted", "claimed"),
    [
        (True, "ReadWriteOnce", True, False),
        (True, "ReadWriteMany", True, True),
        (True, "ReadOnlyMany", True, True),
        ({"upload": True}, "ReadWriteOnce", False, False),
        ({"upload": True}, "ReadWriteMany", False, False),
    ],
)
def test_it_cannot_write_unless_it_takes_uploads(browser: object, mode: Any, *, mounted: bool, claimed: bool) -> None:
    """The mount is read-only; the claim only where no unit on the same node needs the volume otherwise."""
    storage = shown(browser, access_mode=mode)
    (container,), (volume,) = pod(storage)["containers"], pod(storage)["volumes"]
    assert container["volumeMounts"][0].get("readOnly", False) is mounted
    assert volume["persistentVolumeClaim"].get("readOnly", False) is claimed
    assert ("--allow-upload" in container["args"]) is not mounted


@pytest.mark.parametrize(
    ("browser", "told"), [(True, None), ({"upload": True}, str(10 << 30)), ({"upload": {"maxSize": "1Mi"}}, "1048576")]
)
def test_the_proxy_is_told_of_the_limit(browser: object, told: str | None) -> None:
    """In bytes, on the Service; where nothing is said of it, nothing is taken."""
    annotations = browser_manifests(shown(browser))["browser-service"]["metadata"]["annotations"]
    assert annotations.get(names.UPLOAD_ANNOTATION) == told
    assert annotations[names.SIZE_ANNOTATION] == "200Gi"


@pytest.mark.parametrize(("mode", "strategy"), [("ReadWriteOnce", {"type": "Recreate"}), ("ReadWriteMany", None)])
def test_the_old_pod_makes_room_where_one_node_mounts(mode: Any, strategy: Manifest | None) -> None:
    """A new pod on another node would wait for the volume for ever."""
    spec = browser_manifests(shown(browser=True, access_mode=mode))["browser"]["spec"]
    assert spec.get("strategy") == strategy


def test_it_goes_where_the_unit_is_that_has_the_volume() -> None:
    """A volume of one node is mounted on that node, or the pod waits; without a running unit it goes anywhere."""
    held = pod(shown(browser={"upload": True}, placement=PodPlacement(beside="trainer")))
    (term,) = held["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == names.selector("unit", "trainer")
    assert "affinity" not in pod(shown(browser=True))
