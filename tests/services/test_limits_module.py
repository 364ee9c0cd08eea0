"""The proxy's module by itself: what is one source, what a tenant has open, which words it takes. Envoy is played."""

import ctypes
import mmap
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import toolchain
from tools.images.build import part_files
from tools.images.recipes import LIMITS

ENVOY = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
struct text { const char *start; size_t length; };
static bool tell(const char *envoy, struct text *address)
{
    *address = (struct text){envoy, envoy == NULL ? 0 : strlen(envoy)};
    return envoy != NULL;
}
bool envoy_dynamic_module_callback_listener_filter_get_remote_address(void *e, struct text *a, uint32_t *p)
{ (void)p; return tell(e, a); }
bool envoy_dynamic_module_callback_network_filter_get_remote_address(void *e, struct text *a, uint32_t *p)
{ (void)p; return tell(e, a); }
int envoy_dynamic_module_callback_listener_filter_config_define_counter(void *c, struct text n, size_t *id)
{ (void)c; (void)n; *id = 0; return 0; }
int envoy_dynamic_module_callback_listener_filter_increment_counter(void *e, size_t id, uint64_t n)
{ (void)e; (void)id; (void)n; return 0; }
bool envoy_dynamic_module_callback_http_filter_get_attribute_string(void *e, int which, struct text *value)
{ return which == 24 && tell(e, value); }
bool envoy_dynamic_module_callback_http_get_metadata_string(void *e, int m, struct text s, struct text k,
                                                            struct text *value)
{ return m == 0 && s.length == 11 && memcmp(s.start, "gpu-runtime", 11) == 0 && k.length == 9
         && memcmp(k.start, "namespace", 9) == 0 && tell(e, value); }
void envoy_dynamic_module_callback_http_send_response(void *e, uint32_t status, void *h, size_t n, struct text body,
                                                      struct text reason)
{ (void)e; (void)status; (void)h; (void)n; (void)body; (void)reason; }
"""
"""What the module asks of Envoy: a connection is its address, a request its tenant as noted, or its address."""

MOST, SOURCE_BYTES = 100_000, 48
"""Sources that the module remembers, and what one takes at the least, as sources.c has it."""


SOURCES, TENANTS = b"sources", b"tenants"
"""What is counted of requests."""


class Text(ctypes.Structure):
    """A text of Envoy."""

    _fields_ = (("start", ctypes.c_char_p), ("length", ctypes.c_size_t))


class Module:
    """The module, loaded into this process; a copy of its own file has a memory of its own."""

    def __init__(self, folder: Path, envoy: Path) -> None:
        copy = folder / "limits.so"
        shutil.copy(part_files(LIMITS) / "limits.so", copy)
        ctypes.CDLL(str(envoy), ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(copy))
        init = self._function("program_init")
        assert init()

    def _function(self, name: str) -> Callable[..., int | None]:
        function = self._library[f"envoy_dynamic_module_on_{name}"]
        function.restype = ctypes.c_void_p
        made: Callable[..., int | None] = function
        return made

    def configure(self, kind: str, words: bytes, name: bytes = b"") -> int | None:
        """Give what the module makes of its configuration; None: it refuses."""
        return self._function(f"{kind}_filter_config_new")(None, Text(name, len(name)), Text(words, len(words)))

    def judge(self, limits: int | None, address: bytes | None) -> bool:
        """Tell whether *address* may open a connection."""
        return bool(self._function("listener_filter_new")(ctypes.c_void_p(limits), address))

    def open(self, limits: int | None, address: bytes | None) -> int | None:
        """Count one more of *address*."""
        return self._function("network_filter_new")(ctypes.c_void_p(limits), address)

    def ask(self, most: int | None, whose: bytes | None) -> tuple[int | None, bool]:
        """Begin a request of a tenant, or from an address; give it, and whether it goes on."""
        request = ctypes.c_void_p(self._function("http_filter_new")(ctypes.c_void_p(most), None))
        go_on = self._function("http_filter_request_headers")
        go_on.restype = ctypes.c_int  # type: ignore[attr-defined]
        return request.value, go_on(whose, request, ctypes.c_bool(True)) == 0  # noqa: FBT003

    def end(self, request: int | None) -> None:
        """End it."""
        self._function("http_filter_destroy")(ctypes.c_void_p(request))

    def close(self, connection: int | None) -> None:
        """Count one less."""
        self._function("network_filter_destroy")(ctypes.c_void_p(connection))


@pytest.fixture(scope="session")
def envoy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Play Envoy."""
    toolchain.ensure_debian("gcc", "libc6-dev")
    folder = tmp_path_factory.mktemp("envoy")
    (folder / "envoy.c").write_text(ENVOY)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "envoy.so", folder / "envoy.c"], check=True)
    return folder / "envoy.so"


@pytest.fixture
def module(tmp_path: Path, envoy: Path) -> Module:
    """Load the module."""
    return Module(tmp_path, envoy)


@pytest.mark.parametrize(
    "words", ["", " ", "1", "1 ", " 1", "0 1", "1 0", "-1 1", "1 2 3", "1  2", "1 1x", "1234567 1"]
)
@pytest.mark.parametrize("kind", ["listener", "network"])
def test_words_that_are_not_understood_are_refused(module: Module, kind: str, words: str) -> None:
    """Then Envoy does not start, and nobody is let in without a limit."""
    assert module.configure(kind, words.encode()) is None


@pytest.mark.parametrize("words", ["", " ", "0", "-1", "1 1", "1x", "1234567"])
@pytest.mark.parametrize("name", [SOURCES, TENANTS])
def test_words_of_what_may_be_open_that_are_not_understood_are_refused(module: Module, name: bytes, words: str) -> None:
    """The same for requests; a kind that is not known is refused as well."""
    assert module.configure("http", words.encode(), name) is None
    assert module.configure("http", b"1", name + b"x") is None


def test_a_tenant_has_so_much_open_and_no_more(module: Module) -> None:
    """What ends makes room, what was refused takes none, and another tenant's is its own, however alike the names."""
    most = module.configure("http", b"2", TENANTS)
    first, second, third = (module.ask(most, b"lab-a") for _ in range(3))
    assert [first[1], second[1], third[1]] == [True, True, False]
    assert [module.ask(most, name)[1] for name in (b"lab-b", b"lab-", b"lab-aa")] == [True] * 3

    module.end(third[0])
    assert not module.ask(most, b"lab-a")[1]
    module.end(first[0])
    assert module.ask(most, b"lab-a")[1]
    assert not module.ask(most, b"lab-a")[1]


def test_tenants_come_and_go(module: Module) -> None:
    """In whatever order they end, each is counted anew from nothing."""
    most, names = module.configure("http", b"1", TENANTS), [b"lab-%d" % number for number in range(20)]
    for order in (1, -1, 1):
        requests = [module.ask(most, name) for name in names]
        assert all(goes_on for _, goes_on in requests)
        for request, _ in requests[::order]:
            module.end(request)


@pytest.mark.parametrize("tenant", [None, b"", b"x" * 64])
def test_what_is_nobodys_is_refused(module: Module, tenant: bytes | None) -> None:
    """Unknown means no."""
    most = module.configure("http", b"100", TENANTS)
    request, goes_on = module.ask(most, tenant)
    assert not goes_on
    module.end(request)


HERE = [
    (b"192.0.2.1", b"192.0.2.1:443"),
    (b"2001:db8:1:2::1", b"[2001:db8:1:2:ffff::9]:443"),
    (b"fe80::1", b"[fe80::2%eth0]:1"),
]


@pytest.mark.parametrize(("address", "said"), HERE)
def test_a_sources_requests_are_counted_while_it_is_there(module: Module, address: bytes, said: bytes) -> None:
    """What ends makes room; who has no connection has no request; none is forgotten while it is open."""
    limits, most = module.configure("listener", b"10 1000"), module.configure("http", b"2", SOURCES)
    assert not module.ask(most, said)[1]
    assert module.judge(limits, address)
    connection = module.open(limits, address)
    first, second, third = (module.ask(most, said) for _ in range(3))
    assert [first[1], second[1], third[1]] == [True, True, False]

    module.close(connection)
    flood(module, limits, range(MOST + 1))
    assert not module.ask(most, said)[1]
    module.end(first[0])
    assert module.ask(most, said)[1]


NOWHERE = [None, b"", b":", b"192.0.2.1", b"[::1", b"[::1]", b"[]:1", b"]:1", b"x:1", b"[::1]x:1"]


@pytest.mark.parametrize("said", NOWHERE)
def test_a_request_from_no_address_is_refused(module: Module, said: bytes | None) -> None:
    """Unknown means no."""
    limits, most = module.configure("listener", b"10 1000"), module.configure("http", b"2", SOURCES)
    for address in (b"192.0.2.1", b"::1"):
        module.open(limits, address)
    assert not module.ask(most, said)[1]


SAME = [
    ("192.0.2.1", "192.0.2.1", True),
    ("192.0.2.1", "192.0.2.2", False),
    ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", True),
    ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
    ("2001:db8::1", "32.1.13.184", False),
    ("::1", "0.0.0.1", False),
    ("fe80::1%eth0", "fe80::2%eth1", True),
]


@pytest.mark.parametrize(("one", "other", "same"), SAME)
def test_what_is_one_source(module: Module, one: str, other: str, same: bool) -> None:  # noqa: FBT001 - a column
    """An address of IPv4, and a /64 of IPv6: who has one such has all its addresses."""
    limits = module.configure("listener", b"1 1000")
    connection = module.open(limits, one.encode())

    assert not module.judge(limits, one.encode())
    assert module.judge(limits, other.encode()) is not same
    module.close(connection)
    assert module.judge(limits, one.encode())


@pytest.mark.parametrize("address", [None, b"", b"x", b"/run/a.sock", b"1.2.3", b"1.2.3.4.5", b"1" * 100, b":::"])
def test_who_has_no_address_is_refused(module: Module, address: bytes | None) -> None:
    """Unknown means no."""
    limits = module.configure("listener", b"1000 1000")
    assert not module.judge(limits, address)
    assert module.open(limits, address) is None


def test_pace_is_each_sources_own_and_what_is_refused_is_not_counted(module: Module) -> None:
    """Three seconds' worth at once, and no more for who insists."""
    limits = module.configure("listener", b"1000 2")
    assert [module.judge(limits, b"192.0.2.1") for _ in range(9)].count(True) == 6
    assert module.judge(limits, b"192.0.2.2")


def flood(module: Module, limits: int | None, numbers: range) -> None:
    """Judge as many sources as there are *numbers*, each once."""
    for number in numbers:
        assert module.judge(limits, b"2001:db8:%x:%x::1" % (number >> 16, number & 0xFFFF))


def memory() -> int:
    """Give the bytes that this process has in memory, the module's among them."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def test_a_flood_of_sources_forgets_none_that_is_open(module: Module) -> None:
    """However many come, memory has a bound, and who holds connections stays known."""
    limits = module.configure("listener", b"1 1000")
    connection = module.open(limits, b"192.0.2.1")
    flood(module, limits, range(MOST))
    before = memory()
    flood(module, limits, range(MOST, 5 * MOST))

    assert memory() - before < MOST * SOURCE_BYTES
    assert not module.judge(limits, b"192.0.2.1")
    module.close(connection)
    assert module.judge(limits, b"192.0.2.1")
