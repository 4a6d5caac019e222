"""Identities that a source trusts, and keyless signatures of artifacts by them.

The signer proves an identity to an authority (Fulcio), which certifies a key for ten minutes. A log
(Rekor) proves that the key signed within that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gitkruise.errors import Finding, SourceFailed, UsageProblem
from gitkruise.gitops.registry.judgements import OF_ANOTHER, SIGNED, Judgement
from gitkruise.gitops.registry.signatures import StoredSignature
from gitkruise.model.gitops.config import OidcIdentity
from gitkruise.printable import shown
from gitkruise.wire.schema.patterns import compile_pattern

if TYPE_CHECKING:
    from gitkruise.gitops.registry.certificate_verifier import CertificateVerifier, CertifiedSigner

ROOT_KEY: Final = "trusted_root.json"  # of the Secret, as in Flux
_UNTRUSTED: Final = "has no signature of a trusted identity"
_PACKAGE: Final = "pip install 'gitkruise[keyless]'"


@dataclass(frozen=True, slots=True)
class TrustedIdentities:
    """Identities of which one must have signed; certified below `root`, a trusted root of Sigstore
    in JSON from the Secret `where`, or "" for the public instance."""

    identities: tuple[OidcIdentity, ...]
    root: str = ""
    where: str = ""

    @classmethod
    def below(
        cls, identities: tuple[OidcIdentity, ...], data: Mapping[str, str], where: str
    ) -> TrustedIdentities:
        """Return identities with the trusted root of a Secret; `where` is "" for none.

        Raises UsageProblem GK7025.
        """
        if where and not data.get(ROOT_KEY):  # an empty root would be the public one
            raise _unusable(where, f"no {ROOT_KEY}")
        return cls(identities, data.get(ROOT_KEY, ""), where)

    def check(self) -> None:
        """Raise UsageProblem GK7025 for a root that is none, and SourceFailed GK3310 where the
        package that verifies is missing."""
        try:
            _verifier_of(self.root)
        except ImportError as error:
            raise SourceFailed(_not_installed(error)) from error
        except ValueError as error:
            if not self.where:
                raise
            lacks = f"no trusted root of Sigstore in {ROOT_KEY}: {shown(str(error))}"
            raise _unusable(self.where, lacks) from error

    def notes(self, name: str) -> tuple[tuple[str, str], ...]:
        """Return notes for a refusal of the artifact with this name: what to do about it."""
        wanted = [f"issuer ~ {one.issuer}, subject ~ {one.subject}" for one in self.identities]
        root = f"from Secret {self.where}" if self.where else "the public instance of Sigstore"
        sign = f"sign it as a wanted identity: cosign sign {name}"
        return (
            *(("wanted", text) for text in wanted),
            ("trusted root", root),
            ("next", f"{sign}; or correct verify.matchOIDCIdentity"),
        )

    def judge(self, one: StoredSignature, digest: str) -> Judgement | None:
        """Judge a signature of the artifact with this SHA-256; None for one that is none."""
        claim = _verifier_of(self.root).claim_of(one, digest, self._trusts)
        if claim is None:
            return None
        if claim.why:
            return Judgement(_UNTRUSTED, f"{claim.signer}: {claim.why}")
        return SIGNED if claim.names_artifact else OF_ANOTHER

    def _trusts(self, signer: CertifiedSigner) -> bool:
        """Return whether an identity matches: anywhere in the texts, as cosign matches them."""
        return any(
            _matches(one.issuer, signer.issuer)
            and any(_matches(one.subject, subject) for subject in signer.subjects)
            for one in self.identities
        )


@lru_cache(maxsize=8)  # of all sources together
def _verifier_of(root: str) -> CertificateVerifier:
    from gitkruise.gitops.registry.certificate_verifier import CertificateVerifier  # noqa: PLC0415

    return CertificateVerifier(root)


def _matches(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).search(text)


def _unusable(where: str, lacks: str) -> UsageProblem:
    notes = (("next", f"put the trusted root of your instance into the key {ROOT_KEY}"),)
    message = f"the Secret {where} has {lacks}"
    return UsageProblem(Finding(code="GK7025", message=message, notes=notes))


def _not_installed(error: ImportError) -> Finding:
    return Finding(
        code="GK3310",
        message="keyless signatures cannot be verified: the package sigstore is not installed",
        notes=(
            ("why", shown(str(error))),
            ("unchanged", "what runs stays as it is; no new artifact is imported"),
            ("next", f"{_PACKAGE}; the image and the package of a release contain it"),
        ),
    )
