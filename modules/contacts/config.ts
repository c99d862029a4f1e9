import { z } from 'pegboard'
import { stateFolder } from '../_folders.ts'

/** Unknown keys are rejected, so that a misspelled limit does not leave something open. */
export const Config = z.strictObject({
  peers: z
    .boolean()
    .default(false)
    .describe('Allow messages to agents: sent to their http address, or put into contacts/outbox.'),
  allow_humans: z.boolean().default(true).describe('Allow messages to people, not only to agents.'),
  manage: z.boolean().default(false).describe('Enable the tools that list, show and change contacts.'),
  cooldown_hours: z
    .number()
    .min(0)
    .max(8_760)
    .default(72)
    .describe('Hours before another message to a contact that could not be reached.'),
  max_active: z
    .int()
    .min(1)
    .max(1_000)
    .default(150)
    .describe('Maximum number of contacts in ACTIVE.md; the rest go to INACTIVE.md.'),
  file_state_dir: stateFolder.describe(
    'Folder of contacts/ACTIVE.md and contacts/INACTIVE.md, as in modules.filesystem.config.',
  ),
})

export type Settings = z.infer<typeof Config>

export const SETTING = 'modules.contacts.config'
