"""Bytes to messages and back. Knows Kafka's formats, and nothing of what they mean.

frame       bytes of a connection -> frames -> headers
registry    API key or class -> reader, writer, versions
messages    the generated modules, one per message
errors      ErrorCode, DecodeError, EncodeError

schema, emit..., generate, build_hook    make `messages` from protocol_schemas; not needed at run time
"""

__all__: list[str] = []
