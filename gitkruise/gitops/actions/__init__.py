"""Actions on rollouts as commits: promote, hold, resume, rollback; by users and automatically.

`target` finds the object in git, `actions` computes the edited file and its commit message,
`rollback` finds earlier templates, and `hold` reads holds from commit messages. Where kustomize
renders the object, `kustomized` edits the place that sets a field, which `kustomize_setters` finds:
patches, `images:`, replacements and their sources. Each edit is simulated with `gitops.preview`
before it is committed. The cluster is never written: the reconciler applies the commit like every
other one.

Automatic actions run in a `loop` per unit: `promotion` commits the next step of a promotion after
its soak, `on_failure` rolls a failed rollout back, and `image_automation` writes newer images, as
`image_update` edits them. `proposals` turns each into a commit on the followed branch or on a
branch with a pull request (`pull_requests`).

The commands `gitkruise promote|hold|resume|rollback` call `actions`, `gitkruise images` calls
`image_update`; `runtime.promotions` starts the loops.
"""
