# An agent that uses all of protocol 1.1, in what sh has alone.
member() { # NAME of the text in the line on stdin
	sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p'
}

read -r params
echo '{"type":"hello","protocol":"1.1"}'
case $params in
*'"wait":true'*)
	echo '{"type":"progress","message":"waiting"}'
	read -r told
	echo '{"type":"result","result":{"status":"success","told":'"$told"'}}'
	exit 0
	;;
esac
echo '{"type":"progress","message":"looking","done":1,"total":2}'
echo '{"type":"partial","data":{"found":"ä\u2028"}}'
echo '{"type":"call","id":"one","tool":"fs.read_file","action":"read","args":{"path":"'"$(printf '%s\n' "$params" | member path)"'"}}'
read -r content
echo '{"type":"ask","id":2,"question":"Go on?","choices":["yes","no"],"default":"no"}'
read -r answer
printf '%s\n' '{"type":"result","result":{"status":"success","content":"'"$(printf '%s\n' "$content" | member stdout)"'","ids":["one",2],"answer":"'"$(printf '%s\n' "$answer" | member answer)"'","call":"'"$(printf '%s\n' "$params" | member call)"'","note":"'"$(printf '%s\n' "$params" | member note)"'"}}'
