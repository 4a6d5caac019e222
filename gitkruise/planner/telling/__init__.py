"""The words told to forges and chats; decided from records alone."""
