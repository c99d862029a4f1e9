import { valueResult } from '../core/tool-result.ts'
import type { Host, MetaTool } from './meta-host.ts'
import { onlyKeys, readText } from './meta-input.ts'

export const reloadTools = (host: Host): MetaTool => ({
  name: 'reload_tools',
  title: 'Reload tools',
  admin: true,
  description: () => 'Reload module files, all or those of one module. Running calls finish unchanged.',
  inputSchema: { type: 'object', properties: { module: { type: 'string' } } },
  hints: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
  async run(input, { caller }) {
    onlyKeys(input, ['module'], 'reload_tools')
    const name = input['module'] === undefined ? undefined : readText(input, 'module', 'reload_tools', 200)
    const report = await host.context.servicesOf(caller).registry?.reload(name)
    return valueResult(report ?? { loaded: 0, failed: [] })
  },
})
