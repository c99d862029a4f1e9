import { PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import { parseServer } from '../upstream/upstream-settings.ts'
import { editJson } from './edit-json.ts'
import { type FileEdit, readForEdit } from './file-edits.ts'
import type { ServerEntry } from './install-plan.ts'
import { rootOf } from './switch-entries.ts'

/**
 * The edit that adds a server to a configuration file. Creates the file if there is none.
 * @throws PegboardError E_CONFIG_INVALID if the entry is not valid, E_VALIDATION if the name is taken
 */
export async function additionEdit(file: string, id: string, entry: ServerEntry): Promise<FileEdit> {
  parseServer(id, entry)
  const before = await readForEdit(file)
  const root = rootOf(before ?? '')
  // One of two blocks in the same file would hide the other.
  const block = !isRecord(root['mcpServers']) && isRecord(root['servers']) ? 'servers' : 'mcpServers'
  const taken = [root['mcpServers'], root['servers']].some((servers) => isRecord(servers) && Object.hasOwn(servers, id))
  if (taken)
    throw new PegboardError('E_VALIDATION', `There is a server ${JSON.stringify(id)} already.`, {
      hint: `Choose another name with --name, or remove it first: pegboard remove ${id}`,
    })
  return { path: file, before, after: editJson(before ?? '', [{ path: [block, id], value: entry }]) }
}
