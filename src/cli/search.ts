import { localCaller } from '../core/context.ts'
import { signatureOf } from '../core/signature.ts'
import { riskOf } from '../core/tool.ts'
import { firstSentence } from '../view/listing.ts'
import type { Args } from './commands.ts'
import { type Io, table, UsageError, writeJson } from './io.ts'
import { whole, withApp } from './open.ts'

/** `pegboard search <query>`: what a client's search_tools finds, with scores. */
export async function run(args: Args, io: Io): Promise<number> {
  const query = args.positionals.join(' ').trim()
  if (query === '') throw new UsageError('search needs a query, such as pegboard search "read a file"')
  const limit = whole(args, 'limit', 1, 100, 5)
  return withApp(args, io, ({ app }) => {
    const view = app.view(localCaller)
    const rows = app.search(query, localCaller, limit).hits.flatMap(({ id, score }) => {
      const entry = view.byId.get(id)
      if (!entry) return []
      return {
        name: id,
        score: Math.round(score * 1e4) / 1e4,
        description: firstSentence(entry.description, 120),
        params_summary: signatureOf(entry.input.json),
        risk_level: riskOf(entry.tool.effect),
      }
    })
    if (args.values['json'] === true) writeJson(io, rows)
    else if (rows.length === 0) io.stdout('Nothing matches.\n')
    else io.stdout(table(rows.map((row) => [row.score.toFixed(2), row.name, row.risk_level, row.description])))
    return 0
  })
}
