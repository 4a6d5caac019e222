"""Tests of what is told to forges and chats."""
