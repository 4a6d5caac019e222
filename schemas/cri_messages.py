#!/usr/bin/env python3
"""Reduce a descriptor set of CRI to the messages of the methods that `agent.cri.calls` names.

Used by `make cri-messages`: reads a FileDescriptorSet on its standard input, writes one.
"""

from __future__ import annotations

import sys

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

from gitkruise.agent.cri.calls import REPLIES


def messages_of(message: DescriptorProto) -> set[str]:
    """Return the types of its fields and of those of the messages inside it, by their names in the
    file; names in JSON, which only the file of all messages has, are removed."""
    for field in message.field:
        field.ClearField("json_name")
    found = {field.type_name.split(".")[3] for field in message.field if field.type_name}
    return found.union(*map(messages_of, message.nested_type))


def reduce(file: FileDescriptorProto) -> None:
    """Remove all services, and the types that no request or reply of REPLIES leads to."""
    by_name = {message.name: message for message in file.message_type}
    methods = {method for _, method in REPLIES}
    needed: set[str] = set()
    new = {
        name.rpartition(".")[2]
        for service in file.service
        for method in service.method
        if method.name in methods
        for name in (method.input_type, method.output_type)
    }
    while new:
        needed |= new
        new = set().union(*(messages_of(by_name[n]) for n in new if n in by_name)) - needed
    for kind in (file.message_type, file.enum_type):
        kept = [one for one in kind if one.name in needed]
        del kind[:]
        kind.extend(kept)
    del file.service[:]


descriptors = FileDescriptorSet.FromString(sys.stdin.buffer.read())
for file in descriptors.file:
    reduce(file)
sys.stdout.buffer.write(descriptors.SerializeToString())
