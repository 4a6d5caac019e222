"""Live objects in memory, kept up to date, and the leader election.

`list_watch` is the protocol as a state machine without I/O, `informer` drives it over a Transport
into a store, `store` is the cache with read-your-writes that planners read as a View,
`subscriptions` holds the callbacks of all who wait for a change, here and in `gitops`,
`leader_election` holds a Lease. Which kinds are followed, and what a change wakes, is the caller's
decision.

The workload controllers (`controller`), `gitops.cluster` and the webhook's cluster context each
fill a store.
"""
