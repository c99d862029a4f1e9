import type { Reporter, SerializedError, TestModule, TestRunEndReason } from 'vitest/node'

/** Names the test files whose worker process ended too early. Vitest only says that a worker ended. */
export class UnfinishedFilesReporter implements Reporter {
  onTestRunEnd(files: readonly TestModule[], _errors: readonly SerializedError[], reason: TestRunEndReason): void {
    // After --bail or Ctrl-C, files were not started.
    if (reason === 'interrupted') return
    for (const file of files) {
      const state = file.state()
      if (state !== 'pending' && state !== 'queued') continue
      const names = [...file.children.allTests('pending')].map(({ fullName }) => fullName)
      process.stderr.write(
        `${file.relativeModuleId}: its worker process ended too early. Tests without a result: ${names.join('; ')}\n`,
      )
    }
  }
}
