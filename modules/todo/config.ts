import { z } from 'pegboard'
import { stateFolder } from '../_folders.ts'

/** Unknown keys are refused: a misspelt limit must not be without effect. */
export const Config = z.strictObject({
  agent_name: z.string().max(100).default('').describe('Name for $AGENT in people.'),
  user_name: z.string().max(100).default('').describe('Name for $SPEAKER if a request does not say who speaks.'),
  file_state_dir: stateFolder.describe(
    'Folder of TODO.md, TODO.DONE.md and contacts/ACTIVE.md, as in modules.filesystem.config.',
  ),
  max_open: z.int().min(1).max(1_000).default(200).describe('Maximum number of open entries.'),
})

export type Settings = z.infer<typeof Config>

export const SETTING = 'modules.todo.config'
