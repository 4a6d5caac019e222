"""Renderers: programs that turn files of one commit into manifests, run where they can do no harm.

`archive` unpacks archives within limits; `copied_files` collects the files that a renderer is given
and writes them to a private folder; `program` finds the program and runs it with limits, without a
home and without the caller's environment; `network_isolation` takes the network away from it. What
a kustomization may name is in `kustomize`, the arguments and the output of each program in its own
package.
"""
