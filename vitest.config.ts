import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: {
    alias: {
      'pegboard/agent': fileURLToPath(new URL('./src/agent.ts', import.meta.url)),
      pegboard: fileURLToPath(new URL('./src/index.ts', import.meta.url)),
    },
  },
  test: { include: ['test/**/*.test.ts'], testTimeout: 20_000, hookTimeout: 30_000, maxWorkers: 2 },
})
