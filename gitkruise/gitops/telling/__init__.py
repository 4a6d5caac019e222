"""Telling forges and chats, and never losing what is to be told."""
