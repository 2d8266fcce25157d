"""Who asks a site: identities of cookies, headers and logins, their health, and how they are had and kept."""
