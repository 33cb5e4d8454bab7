"""``palmette keys``: a private certificate authority and a certificate per node, for ``--transport tls``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli.passphrase import PassphraseFile, read_passphrase
from palmette.errors import ArgumentFault, InputError, expected_name

if TYPE_CHECKING:
    from palmette.runtime.transports.keys.certificates import Role

keys = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="A private certificate authority and a certificate per node, for runs over --transport tls."
    "\n\nExample: palmette keys init --keys keys",
)

Folder = Annotated[Path, typer.Option("--keys", help="Folder of the keys.")]
Node = Annotated[str, typer.Argument(help="Name of the node, as in the cluster file.")]
Days = Annotated[int, typer.Option("--days", min=1, help="Days that the certificate is valid.")]
RoleName = Annotated[
    str,
    typer.Option("--role", help="What its holder may do: worker (take part), viewer (watch) or operator (start runs)."),
]


@keys.command()
def init(
    folder: Folder = Path("keys"),
    days: Annotated[int, typer.Option("--days", min=1, help="Days that the authority is valid.")] = 5 * 365,
) -> None:
    """Create a private certificate authority.

    Example: palmette keys init --keys keys
    """
    from palmette.runtime.transports.keys.folder import Keys

    made = Keys(folder).init(days)
    print(f"{folder / 'authority.crt'}: valid until {made.not_valid_after_utc.date()}")
    print(f"{folder / 'authority.key'}: signs certificates; keep it off the nodes")


@keys.command()
def issue(
    nodes: Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of nodes, as in the cluster file.")],
    folder: Folder = Path("keys"),
    days: Annotated[int, typer.Option("--days", min=1, help="Days that the certificates are valid.")] = 90,
    address: Annotated[
        list[str] | None,
        typer.Option("--address", help="Host name or IP address to add to the certificate; may be repeated."),
    ] = None,
    role: RoleName = "worker",
) -> None:
    """Issue a key and a certificate for each node; valid ones are not replaced.

    Example: palmette keys issue phone server cloud
    """
    from palmette.runtime.transports.keys.folder import Keys

    if address and len(nodes) > 1:
        raise InputError(ArgumentFault("address", ", ".join(address), f"expected one node, not {len(nodes)}"))
    known, asked = Keys(folder), _role(role)
    for node in nodes:
        known.refuse_issued(node)
    for node in dict.fromkeys(nodes):
        made = known.issue(node, days, address or (), asked)
        print(f"{node}: valid until {made.not_valid_after_utc.date()}")


@keys.command()
def revoke(
    node: Annotated[str, typer.Argument(help="The node whose certificate to revoke.")],
    folder: Folder = Path("keys"),
) -> None:
    """Revoke a node's certificates; a hub that reads this folder drops the node within seconds.

    Example: palmette keys revoke phone
    """
    from palmette.runtime.transports.keys.folder import Keys

    Keys(folder).revoke(node)
    print(f"{node}: revoked; copy {folder / 'revoked.crl'} to the other hosts")


@keys.command("list")
def list_(
    folder: Folder = Path("keys"),
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the nodes' certificates: role, expiry, and whether they are valid.

    Example: palmette keys list --keys keys
    """
    from palmette.runtime.transports.keys.folder import Keys

    found = Keys(folder).entries()
    if json_:
        rows = [{**each._asdict(), "until": each.until.isoformat()} for each in found]
        print(json.dumps(rows, indent=1))
        return
    width = max((len(each.node) for each in found), default=0)
    for each in found:
        print(f"{each.node:{width}}  {each.role:8}  until {each.until.date()}  {each.state}")


@keys.command()
def renew(node: Node, folder: Folder = Path("keys"), days: Days = 90) -> None:
    """Issue another certificate for a node's key; the old one stays valid until it expires.

    Example: palmette keys renew phone
    """
    from palmette.runtime.transports.keys.folder import Keys

    made = Keys(folder).renew(node, days)
    print(f"{node}: valid until {made.not_valid_after_utc.date()}")


@keys.command()
def pack(
    node: Node,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write, such as phone.palmette.")],
    folder: Folder = Path("keys"),
    hub: Annotated[
        str | None, typer.Option("--hub", help="Address of the hub, and the node that it is: NODE@host:port.")
    ] = None,
    code: Annotated[
        bool, typer.Option("--code", help="Encrypt it with a new code, which is printed, instead of a passphrase.")
    ] = False,
    passphrase_file: Annotated[
        Path | None, typer.Option("--passphrase-file", help="Read the passphrase from this file instead of asking.")
    ] = None,
) -> None:
    """Pack everything that one node needs into one file, encrypted with a passphrase or a code.

    Example: palmette keys pack phone -o phone.palmette --hub server@hub.example:8443 --code
    """
    from palmette.runtime.transports.keys.folder import Keys
    from palmette.runtime.transports.keys.pack import new_code, write_pack

    made = new_code() if code else None
    write_pack(Keys(folder), node, output, made or read_passphrase(passphrase_file, new=True), _hub(hub))
    print(f"{output}: all that {node} needs; give it to nobody else" + (f"\ncode: {made}" if made else ""))


@keys.command()
def unpack(
    file: Annotated[Path, typer.Argument(help="A file of palmette keys pack.")],
    folder: Folder = Path("keys"),
    passphrase_file: PassphraseFile = None,
) -> None:
    """Write the keys of a pack to a folder, for runs with --transport tls.

    Example: palmette keys unpack phone.palmette --keys keys
    """
    from palmette.runtime.transports.keys.pack import open_pack, write_folder

    found = open_pack(file, read_passphrase(passphrase_file))
    write_folder(found, folder)
    print(f"{folder}: keys of {found.node}")
    if found.hub is not None:
        print(f"hub: {found.hub.node} at {found.hub.address}, fingerprint {found.hub.fingerprint}")


@keys.command()
def enroll(
    node: Node,
    folder: Folder = Path("keys"),
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The request to write; NODE.csr if not given.")
    ] = None,
) -> None:
    """On a node: make its key, which stays there, and a request for a certificate.

    Example: palmette keys enroll phone -o phone.csr
    """
    from palmette.runtime.transports.keys.enrolment import enroll as make_request
    from palmette.runtime.transports.keys.folder import Keys

    request = output or Path(f"{node}.csr")
    make_request(Keys(folder), node, request)
    print(f"{request}: send it to the authority, where: palmette keys sign {node} {request}")


@keys.command()
def invite(
    node: Node,
    hub: Annotated[str, typer.Option("--hub", help="Address of the hub, as the node reaches it: host:port.")],
    folder: Folder = Path("keys"),
) -> None:
    """At the authority: print a code with which a node gets its certificate from the hub, once and within a day.

    Example: palmette keys invite phone --hub hub.example:8443
    """
    from palmette.runtime.engines.hub.access import hub_address
    from palmette.runtime.transports.keys.folder import Keys
    from palmette.runtime.transports.keys.invitation import invite as make_code

    print(make_code(Keys(folder), node, hub_address(hub)))


@keys.command()
def sign(
    node: Node,
    request: Annotated[Path, typer.Argument(help="The request that palmette keys enroll has made.")],
    folder: Folder = Path("keys"),
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The answer to write; NODE.pem if not given.")
    ] = None,
    days: Days = 90,
    role: RoleName = "worker",
) -> None:
    """At the authority: sign the request of a node that has made its own key.

    Example: palmette keys sign phone phone.csr -o phone.pem
    """
    from palmette.runtime.transports.keys.certificates import fingerprint
    from palmette.runtime.transports.keys.enrolment import answer
    from palmette.runtime.transports.keys.folder import Keys

    reply, known = output or Path(f"{node}.pem"), Keys(folder)
    made = answer(known, node, request, reply, days=days, role=_role(role))
    print(f"{node}: valid until {made.not_valid_after_utc.date()}")
    mark = fingerprint(known.authority())
    print(f"{reply}: send it to the node, where: palmette keys accept {node} {reply} --fingerprint {mark}")


@keys.command()
def accept(
    node: Node,
    reply: Annotated[Path, typer.Argument(help="The answer that palmette keys sign has made.")],
    folder: Folder = Path("keys"),
    fingerprint: Annotated[
        str | None,
        typer.Option("--fingerprint", help="The authority's fingerprint, from its owner; not needed if it is known."),
    ] = None,
) -> None:
    """On a node: store the answer to its request.

    Example: palmette keys accept phone phone.pem --fingerprint 3f…
    """
    from palmette.runtime.transports.keys.enrolment import accept as take_answer
    from palmette.runtime.transports.keys.folder import Keys

    made = take_answer(Keys(folder), node, reply, fingerprint)
    print(f"{node}: valid until {made.not_valid_after_utc.date()}")


def _role(name: str) -> Role:
    from palmette.runtime.transports.keys.certificates import ROLES

    given = [role for role in ROLES if role != "invited"]
    for role in given:
        if role == name:
            return role
    raise InputError(ArgumentFault("role", name, expected_name(name, "role", given)))


def _hub(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    node, at, address = text.rpartition("@")
    host, colon, port = address.rpartition(":")
    if not (node and at and host and colon and port.isdecimal() and 0 < int(port) < 2**16):
        raise InputError(ArgumentFault("hub", text, "expected NODE@host:port, such as server@hub.example:8443"))
    return address, node
