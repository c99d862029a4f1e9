import { availableParallelism, loadavg } from 'node:os'
import type { Reporter, TestModule } from 'vitest/node'

/**
 * Seconds that the tests and hooks of one file may take, by tier: three times the limit on an idle machine. They grow
 * with the load of the machine, so that only a slower file is reported.
 */
const BUDGET_S: Readonly<Record<string, number>> = { fast: 30, slow: 180 }

/** Fails a run when a test file takes longer than the budget of its tier. */
export class BudgetReporter implements Reporter {
  readonly #slow: string[] = []

  onTestModuleEnd(file: TestModule): void {
    const tier = file.project.name
    const seconds = file.diagnostic().duration / 1_000
    const allowed = (BUDGET_S[tier] ?? Number.POSITIVE_INFINITY) * Math.max(1, loadavg()[0]! / availableParallelism())
    if (seconds <= allowed) return
    const advice = tier === 'fast' ? 'Make it faster, or name it *.slow.test.ts.' : 'Make it faster, or divide it.'
    this.#slow.push(
      `${file.relativeModuleId} took ${seconds.toFixed()} s; a ${tier} file may take ${allowed.toFixed()} s. ${advice}\n`,
    )
  }

  onTestRunEnd(): void {
    if (this.#slow.length === 0) return
    process.exitCode = 1
    process.stderr.write(this.#slow.join(''))
  }
}
