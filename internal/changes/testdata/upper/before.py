# What the host has before the sandbox starts. See record.sh.
import os,shutil
h='/tmp/airlock-record/w'
shutil.rmtree(h,ignore_errors=True); os.makedirs(h); os.chdir(h)
def w(p,s=b'x\n'):
    os.makedirs(os.path.dirname(p) or '.',exist_ok=True); open(p,'wb').write(s)
for n in ['del','mod','chmod','chown','touch','opened','rewritten','hlsrc','tolink','todir','xattrmod','append','setuid','renfile','xa_keep']: w(n,b'content of '+n.encode()+b'\n')
for n in ['a','b','sub/c']: w('rendir/'+n)
for n in ['a','b','sub/c']: w('deldir/'+n)
for n in ['a','sub/c']: w('remade/'+n)
for n in ['a','sub/c']: w('tofile/'+n)
for n in ['src/sub/x','src/y']: w('mvover/'+n)
for n in ['dst/sub/z','dst/y']: w('mvover/'+n)
w('dirmode/a'); w('dirtouch/a')
os.symlink('del','link'); os.symlink('mod','linkmod')
w('hl1',b'hard\n'); os.link('hl1','hl2')
os.setxattr('xattrmod',b'user.k',b'v1'); os.setxattr('xa_keep',b'user.k',b'v1'); os.setxattr('xa_keep',b'user.bin',b'\xff\x00');os.setxattr('xa_keep',b'user.empty',b'')
w(b'host\xff'.decode('utf8','surrogateescape'))
for n in os.listdir('.'):
    if os.path.isfile(n) and not os.path.islink(n): os.utime(n,ns=(10**9,1600000000_600000000))
