// The tools that the suite's scenarios of the tasks extension call by name.
const sleep = (ms, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
  })
const text = (name) => ({ type: 'object', properties: { [name]: { type: 'string' } }, required: [name] })
const form = (name, type) => ({ type: 'object', properties: { [name]: { type } }, required: [name] })

export default {
  name: 'tasks',
  description: 'What the conformance suite wants to find.',
  tools: {
    greet: {
      description: 'Says hello to somebody, at once.',
      effect: 'read',
      input: text('name'),
      run: ({ name }) => `Hello, ${name}!`,
    },
    slow_compute: {
      description: 'Takes so many seconds and then has a result.',
      effect: 'read',
      task: 'optional',
      input: { type: 'object', properties: { seconds: { type: 'number' }, label: { type: 'string' } } },
      async run({ seconds = 1, label = '' }, { signal }) {
        await sleep(seconds * 1_000, signal)
        return `computed ${label}`
      },
    },
    failing_job: {
      description: 'Works for a second and then fails, always.',
      effect: 'read',
      task: 'required',
      async run(_input, { signal }) {
        await sleep(1_000, signal)
        throw new Error('the job failed')
      },
    },
    protocol_error_job: {
      description: 'Works for a while and then breaks the protocol.',
      effect: 'read',
      task: 'optional',
      async run(_input, { signal }) {
        await sleep(300, signal)
        throw new TypeError('broken')
      },
    },
    confirm_delete: {
      description: 'Deletes nothing, and asks before.',
      effect: 'destructive',
      task: 'optional',
      input: text('filename'),
      async run({ filename }, { ask }) {
        const answer = await ask({ message: `Delete ${filename}?`, schema: form('confirm', 'boolean') })
        return answer.action === 'accept' && answer.content.confirm ? `deleted ${filename}` : `kept ${filename}`
      },
    },
    multi_input: {
      description: 'Asks two things at the same time.',
      effect: 'read',
      task: 'optional',
      async run(_input, { ask }) {
        const answers = await Promise.all(
          ['first', 'second'].map((name) => ask({ message: `The ${name}?`, schema: form(name, 'string') })),
        )
        return JSON.stringify(answers)
      },
    },
    test_tool_with_task: {
      description: 'Asks for a name, and is a task from then on.',
      effect: 'read',
      task: 'required',
      asksFirst: true,
      async run(_input, { ask, background, signal }) {
        const answer = await ask({ message: 'What is your name?', schema: form('name', 'string') })
        background()
        await sleep(300, signal)
        return `done for ${JSON.stringify(answer.content)}`
      },
    },
  },
}
