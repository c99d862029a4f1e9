import { z } from 'pegboard'

/** Unknown keys are refused: a misspelt limit must not leave something open. */
export const Config = z.strictObject({
  peers: z
    .boolean()
    .default(false)
    .describe('Agents are written to: at their http address, and else into contacts/outbox.'),
  allow_humans: z.boolean().default(true).describe('People may be written to, not only agents.'),
  manage: z.boolean().default(false).describe('The tools that list, show and change contacts are there, too.'),
  cooldown_hours: z
    .number()
    .min(0)
    .max(8_760)
    .default(72)
    .describe('How long nobody writes to a contact that could not be reached.'),
  max_active: z.int().min(1).max(1_000).default(150).describe('Contacts in ACTIVE.md; more go to INACTIVE.md.'),
  file_state_dir: z
    .string()
    .min(1)
    .default('{{state_dir}}/files')
    .describe('The folder of contacts/ACTIVE.md and contacts/INACTIVE.md; as in modules.filesystem.config.'),
})

/** As `Config` gives it. */
export interface Settings {
  readonly peers: boolean
  readonly allow_humans: boolean
  readonly manage: boolean
  readonly cooldown_hours: number
  readonly max_active: number
  readonly file_state_dir: string
}

export const SETTING = 'modules.contacts.config'
