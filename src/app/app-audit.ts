import { join } from 'node:path'
import type { Config } from '../config/load-config.ts'
import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { type Audit, createAudit } from '../observe/audit-log.ts'
import { readSecret } from '../state/secret-file.ts'

/** The audit log; undefined if the configuration does not enable it. @param hide replaces secrets in a text */
export function createAppAudit(
  { audit, dirs }: Pick<Config, 'audit' | 'dirs'>,
  clock: Clock,
  log: Log,
  hide: (text: string) => string,
): Audit | undefined {
  if (!audit.enabled) return undefined
  return createAudit({
    ...audit,
    file: audit.file ?? join(dirs.state, 'audit.jsonl'),
    anchorDir: join(dirs.state, 'audit'),
    clock,
    log: log.scoped('audit'),
    key: () =>
      readSecret(join(dirs.state, 'audit.key'), (error) =>
        log.warn('cannot store the key of the audit log: lines written now cannot be verified later', {
          error: messageOf(error),
        }),
      ),
    hide,
  })
}
