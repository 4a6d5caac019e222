"""Building blocks of the HTTP servers that gitkruise runs.

Addresses as users write them, listening sockets, limits on connections and bodies, and certificates
of a private authority. Routes and answers are not here: they belong to the embedded cluster
(`sandbox`), the webhook server, the receivers and the metrics endpoint, which call this package.
"""
