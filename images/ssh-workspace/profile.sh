# /etc/profile sets PATH anew; a login shell has the container's own, as the program has.
PATH=$(tr '\0' '\n' < /proc/1/environ | sed -n 's/^PATH=//p')
export PATH
