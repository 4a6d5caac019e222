"""Requests that a user makes to node agents: containers to recreate, images to pull ahead.

`agents` finds the agents of nodes and the controller of requests; `recreate` and `prepull` check a
command against the cluster; `submission` creates objects and `follow` waits for their end. Objects
are drafted in `planner.node`, where their controllers and agents are decided, too.

Callers: `gitkruise recreate` and `gitkruise prepull`. Requests in manifests of a unit take the way
of every other object and do not come here.
"""
