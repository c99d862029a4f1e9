import type { Finding, Passed } from './findings.ts'

/** Where checks report, one after the other as they finish. */
export interface Report {
  found(finding: Finding): void
  passed(passed: Passed): void
}
