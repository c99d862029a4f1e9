import { valueResult } from '../core/result.ts'
import type { Host, MetaTool } from './host.ts'
import { onlyKeys, text } from './input.ts'

export const reloadTools = (host: Host): MetaTool => ({
  name: 'reload_tools',
  title: 'Reload tools',
  admin: true,
  description: () => 'Reads the files of modules again, all or those of one module. Calls under way end as they began.',
  inputSchema: { type: 'object', properties: { module: { type: 'string' } } },
  hints: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
  async run(input, { caller }) {
    onlyKeys(input, ['module'], 'reload_tools')
    const name = input['module'] === undefined ? undefined : text(input, 'module', 'reload_tools', 200)
    const report = await host.context.servicesOf(caller).registry?.reload(name)
    return valueResult(report ?? { loaded: 0, failed: [] })
  },
})
