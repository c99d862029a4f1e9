import { dirname } from 'node:path'
import type { Config } from '../config/load-config.ts'
import { isPegboardError, joinSentences, messageOf } from '../core/errors.ts'
import { formatCount } from '../core/format-count.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import { chooseEmbedder } from '../search/embedders/choose-embedder.ts'
import { connectFault } from './check-machine.ts'
import type { ServerChecks } from './check-servers.ts'
import type { Reporter } from './findings.ts'

const LLM_MS = 3_000

/** Why the configured search model cannot be used; undefined if it can. Loads no model. */
export function searchModelFault({ search, file, dirs }: Config): string | undefined {
  try {
    chooseEmbedder(search, { cacheDir: dirs.cache, baseDir: file === undefined ? dirs.workspace : dirname(file) })
    return undefined
  } catch (error) {
    return isPegboardError(error) ? joinSentences(error.message, error.hint) : messageOf(error)
  }
}

export async function checkSearch({ app, config, clock, timeoutMs, report }: ServerChecks): Promise<void> {
  const unset = searchModelFault(config)
  if (unset !== undefined) return report.found({ code: 'model-unset', about: 'search model', message: unset })
  app.warm()
  const indexed = app.indexed().then(() => true)
  const isReady = await waitAtMost(timeoutMs, indexed, () => false, clock)
  const { embedded, semantic } = app.searchStatus()
  if (embedded === 'unavailable')
    report.found({ code: 'model-damaged', about: 'search model', message: 'The included model cannot be opened.' })
  else if (semantic?.reason !== undefined)
    report.found({ code: 'model-failed', about: 'search model', message: `${semantic.embedder}: ${semantic.reason}.` })
  else report.passed({ about: 'search model', message: semantic?.embedder ?? 'included' })
  const count = app.catalog.snapshot().tools.length
  if (isReady) report.passed({ about: 'search index', message: formatCount(count, 'tool') })
  else
    report.found({
      code: 'index-incomplete',
      about: 'search index',
      message: `Not all of ${formatCount(count, 'tool')} were indexed within ${timeoutMs / 1_000} s.`,
    })
}

/** The endpoint of services.llm. Sends nothing. */
export async function checkLlm({ services }: Config, report: Reporter): Promise<void> {
  if (services.llm === undefined) return
  const { hostname, port, protocol } = new URL(services.llm.baseUrl)
  const number = Number(port) || (protocol === 'https:' ? 443 : 80)
  const fault = await connectFault(hostname, number, LLM_MS)
  const at = `${hostname}:${number}`
  if (fault === undefined) report.passed({ about: 'language model', message: at })
  else report.found({ code: 'llm-unreachable', about: 'language model', message: `${at} does not answer (${fault}).` })
}
