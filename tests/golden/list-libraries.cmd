memplan list libraries
