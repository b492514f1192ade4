package main

import "github.com/xdg-go/scram"

// conversation is one login by SCRAM-SHA-512, which the library leaves to its users.
type conversation struct{ *scram.ClientConversation }

func (c *conversation) Begin(user, password, authzID string) error {
	client, err := scram.SHA512.NewClient(user, password, authzID)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}
