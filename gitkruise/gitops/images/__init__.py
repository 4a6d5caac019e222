"""Images of units that follow a registry: their tags, and the references to them in git.

`tags` lists the tags of an image with the credentials of its unit, by the rules for addresses that
charts obey. `references` finds the references to an image in desired objects. The tag is chosen by
`model.gitops.image_policy`; edits and commits are in `gitops.actions`.

Callers: `actions.image_update`, and the command `gitkruise images`.
"""
