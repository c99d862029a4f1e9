#!/usr/bin/env node
/** Plays the browser of a person: opens the address and follows it to the redirect. */
await fetch(process.argv[2])
