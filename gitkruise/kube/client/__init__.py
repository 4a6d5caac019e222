"""Requests to an API server: the Transport interface and its implementations.

`transport` is the interface, `http` the one over aiohttp; those of `wrappers` go over another one.
`codec`, `rawobject` and `responses` turn bytes into objects and errors, `limits` paces requests,
`discovery` lists what a cluster serves.
Addresses and credentials come from `auth`; lists and watches that last are in `cache`.

`controller`, `gitops`, `webhook` and the CLI call this package; `sandbox` takes its codec and its
interface.
"""
