import { render } from 'preact'
import { App } from './app.tsx'
import { start } from './state.ts'

const root = document.getElementById('page')
if (root) {
  root.replaceChildren()
  render(<App />, root)
  void start()
}
