// An agent that uses all of protocol 1.1, in what Node has alone.
'use strict';
const lines = require('node:readline').createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (message) => process.stdout.write(JSON.stringify(message) + '\n');
const hear = async () => {
  const { value, done } = await lines.next();
  return done ? { type: 'end' } : JSON.parse(value);
};

(async () => {
  const params = await hear();
  say({ type: 'hello', protocol: '1.1' });
  if (params.wait) {
    say({ type: 'progress', message: 'waiting' });
    const told = await hear();
    say({ type: 'result', result: { status: 'success', told } });
    return;
  }
  say({ type: 'progress', message: 'looking', done: 1, total: 2 });
  say({ type: 'partial', data: { found: 'ä\u2028' } });
  say({ type: 'call', id: 'one', tool: 'fs.read_file', action: 'read', args: { path: params.path } });
  const content = await hear();
  say({ type: 'ask', id: 2, question: 'Go on?', choices: ['yes', 'no'], default: 'no' });
  const answer = await hear();
  say({
    type: 'result',
    result: {
      status: 'success',
      content: content.stdout,
      ids: [content.id, answer.id],
      answer: answer.answer,
      call: params._airlock.call,
      note: params.note,
    },
  });
})();
