"""Changes to manifest files that keep every other byte.

`set_field` changes one field, `copy_field` takes a field from another version of the file,
`rename_key` renames keys, `inline_text` changes a text in a file, such as an inline patch. Each
takes the bytes of a file and returns new bytes; comments, indentation and quotes stay. `edit_diff`
shows the result without secrets. Reading a repository and committing the result are the caller's
part.

Actions that edit git (`gitops.actions`) and the fixes of `gitkruise validate` call this package.
"""
